"""The version of the package, also written into the files it makes."""

__version__ = "0.1.0"
