"""``python -m kerncap``: the ``kerncap`` command."""

from kerncap_stages.compat.kerncap_cli import main

main()
