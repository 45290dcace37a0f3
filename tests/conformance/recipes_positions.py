"""Tables of position deletes and deletion vectors."""

from tests.conformance.recipes import Recipes

RECIPES = Recipes()
