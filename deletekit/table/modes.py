"""Name the delete modes once. Verbs, table properties and the command line take them from here.

It imports nothing heavy, because the help of the command line needs it.
"""

from typing import Literal, get_args

RowMode = Literal["copy-on-write", "position-delete", "deletion-vector", "equality-delete"]
"""How rows are deleted or changed."""
DeleteMode = Literal[RowMode, "merge-on-read"]
"""What a caller or a property may say; `merge-on-read` stands for the position deletes of the format version."""
DELETE_MODES: tuple[str, ...] = get_args(DeleteMode)
