"""Log of the HTTP library, without the content of requests: a header that it could not read may hold the token."""

import logging
from functools import cache

from aiohttp.http_exceptions import HttpProcessingError


class _HideContent(logging.Filter):
    """Its errors quote the line that they are about, so only the kind of error is told."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, HttpProcessingError):
            record.msg, record.args = "a request that is not proper HTTP was refused: %s", (type(error).__name__,)
            record.exc_info = record.exc_text = None
            record.levelno, record.levelname = logging.WARNING, "WARNING"
        return True


@cache
def http_log() -> logging.Logger:
    log = logging.getLogger("finclaw.web.http")
    log.addFilter(_HideContent())
    return log
