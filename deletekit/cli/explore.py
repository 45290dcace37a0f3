"""The command `explore`."""

from importlib import import_module
from pathlib import Path

import click

from deletekit.cli.options import TableCommand, check_new
from deletekit.cli.table_argument import TableArgument
from deletekit.course.translations import LANGUAGES, Messages
from deletekit.text import plain


@click.command(cls=TableCommand)
@click.option(
    "--html",
    "target",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write one page that needs nothing else; without it, print text.",
)
@click.option(
    "--snapshot", metavar="NAME", help="The snapshot, as S2: the second that the table has.  [default: current]"
)
@click.option("--lang", type=click.Choice(LANGUAGES), help="Language of the page.  [default: DELETEKIT_LANG, or en]")
@click.option("--overwrite", is_flag=True, help="Replace FILE where it exists.")
def explore(
    argument: TableArgument, target: Path | None, *, snapshot: str | None, lang: str | None, overwrite: bool
) -> None:
    """Show what a table consists of, down to the bytes of a deletion vector, and why rows are hidden.

    TABLE is a *.metadata.json file or a table's directory; with --warehouse or --catalog it is namespace.table.

    \b
    Examples:
      deletekit explore wh/demo/users --html users.html
      deletekit explore --warehouse wh demo.users --lang ko --html users.html
    """  # noqa: D301  # click's \b keeps the lines of the examples apart
    if target is not None:
        check_new(target, overwrite=overwrite)
    # Imported by name: the views import everything, and no other command needs them.
    views, texts = (import_module(f"deletekit.course.views.{name}") for name in ("explore", "page_text"))
    view = views.as_table_view(argument.open())
    pages = views.explore_pages(view, snapshot=snapshot, lang=lang)
    if target is None:
        click.echo("\n\n".join(texts.page_text(page) for page in pages))
        return
    target.write_text(views.explore_html(view, Messages(lang), pages), encoding="utf-8")
    click.echo(plain(target))
