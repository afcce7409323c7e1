"""Web pages as text: the tool `web__fetch` and the reader of HTML behind it."""
