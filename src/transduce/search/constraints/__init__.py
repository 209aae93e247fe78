"""Lexical constraints: phrases that an output must contain, and phrases that it must not contain."""
