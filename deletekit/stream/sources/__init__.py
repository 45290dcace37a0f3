"""Sources of change rows: formats decode messages, transports bring them."""

from deletekit.stream.sources.formats import FORMATS, decoder
from deletekit.stream.sources.messages import CHANGE_TYPE, SEQUENCE, Decoder, Message, Reject

__all__ = ["CHANGE_TYPE", "FORMATS", "SEQUENCE", "Decoder", "Message", "Reject", "decoder"]
