"""``python -m kerncap``: the ``kerncap`` command."""

from kerncap_stages.api.kerncap_cli import main

main()
