"""The HTTP service that judges and times variants: kc-evaluate-serve."""
