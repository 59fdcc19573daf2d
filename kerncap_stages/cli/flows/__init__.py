"""What each executable does after its command line is parsed. Only its command imports a module."""
