"""Run the command line as `python -m deletekit.cli`, if the script `deletekit` is not on the PATH."""

from deletekit.cli.app import main

if __name__ == "__main__":
    main(prog_name="deletekit")
