"""Speak to a chat-completions endpoint; strict in what we send, patient in what we read."""
