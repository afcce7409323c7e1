"""Telegram: a bot in private chats, groups and topics, by long polling or a webhook."""
