"""WORKSHOP: pack the course into a folder from which it is installed and taken without a network.

Packing needs the extra `course` and a network.
"""

from deletekit.course.workshop.bundle import Bundle, make_bundle
from deletekit.course.workshop.target import PLATFORMS, Target

__all__ = ["PLATFORMS", "Bundle", "Target", "make_bundle"]
