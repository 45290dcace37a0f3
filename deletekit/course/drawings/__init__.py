"""The drawings of the course: pictures made from data, in five languages, each with a text that says the same."""

from deletekit.course.drawings.bitmaps import roaring_container
from deletekit.course.drawings.commit_race import commit_race
from deletekit.course.drawings.file_tree import file_tree
from deletekit.course.drawings.sequence_axis import sequence_axis
from deletekit.course.svg import Svg

__all__ = ["Svg", "commit_race", "file_tree", "roaring_container", "sequence_axis"]
