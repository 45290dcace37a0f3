"""The conformance suite: small tables with deletes, and a runner that asks engines for their rows and judges them."""
