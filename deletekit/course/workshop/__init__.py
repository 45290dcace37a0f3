"""WORKSHOP: the course as a folder from which it is installed and taken without a network.

Law: needs the extra `course`, and a network while the folder is made; what is in the folder needs none.
"""

from deletekit.course.workshop.bundle import Bundle, make_bundle
from deletekit.course.workshop.target import PLATFORMS, Target

__all__ = ["PLATFORMS", "Bundle", "Target", "make_bundle"]
