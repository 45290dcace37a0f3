"""Values as text that is safe to print, as the views have them."""

from __future__ import annotations

from deletekit.safe_text import count, first, json_ready, literal, moment, plain, runs, short, size

__all__ = ["count", "first", "json_ready", "literal", "moment", "plain", "runs", "short", "size"]
