"""Redaction of secrets: a register of known values; patterns of keys, cards, accounts and identity numbers."""

from finclaw.redaction.known_secrets import (
    HIDDEN,
    SHORTEST,
    Follow,
    KnownSecrets,
    Secret,
    forget_known_secrets,
    hide_and_cut,
    hide_in_bytes,
    hide_known_secrets,
    is_secret_name,
    remember_secret,
    remember_secrets_in_address,
)

__all__ = [
    "HIDDEN",
    "SHORTEST",
    "Follow",
    "KnownSecrets",
    "Secret",
    "forget_known_secrets",
    "hide_and_cut",
    "hide_in_bytes",
    "hide_known_secrets",
    "is_secret_name",
    "remember_secret",
    "remember_secrets_in_address",
]
