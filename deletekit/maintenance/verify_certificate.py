"""Verify a certificate of `deletekit.erase`, without deletekit: `python verify_certificate.py x.json public.pem`.

It needs the package `cryptography`, and this file alone. With `--files`, files of this machine that the last search
read are compared with their hashes, if they are still there. Whose public key it is, you must know yourself.
"""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any, cast

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key


def verified(data: bytes, public_key: bytes) -> dict[str, Any]:
    """Return the signed document. Raise ValueError if one byte of the file is another than when it was written."""
    try:
        whole = json.loads(data)
        document: dict[str, Any] = whole["certificate"]
        signature, key = bytes.fromhex(whole["signature"]), cast("Ed25519PublicKey", load_pem_public_key(public_key))
        key.verify(signature, json.dumps(document, sort_keys=True, separators=(",", ":")).encode())
        written = json.dumps({"certificate": document, "signature": signature.hex()}, indent=1, sort_keys=True)
    except (LookupError, TypeError, InvalidSignature) as e:
        raise ValueError(f"this key did not sign it ({type(e).__name__})") from None
    if data != written.encode():
        raise ValueError("not the bytes that were written")
    return document


def main(certificate: str, public_key: str, *options: str) -> None:
    """Print what a certificate says. The exit code is 1 if it is not verified, or a searched file has changed."""
    try:
        document = verified(Path(certificate).read_bytes(), Path(public_key).read_bytes())
    except ValueError as e:
        sys.exit(f"NOT VERIFIED: {e}")
    after = document["after"]
    print("verified; erased:", document["erased"], "; searched files:", len(after["searched"]))  # noqa: T201
    print(json.dumps({what: after[what] for what in ("found", "possible", "not-searched")}, indent=1))  # noqa: T201
    hashes = {Path(f["path"].removeprefix("file://")): f["sha256"] for f in after["searched"] if "sha256" in f}
    there = (path for path in hashes if "--files" in options and path.is_file())
    changed = [str(path) for path in there if hashlib.sha256(path.read_bytes()).hexdigest() != hashes[path]]
    if changed:
        sys.exit("CHANGED SINCE: " + ", ".join(changed))


if __name__ == "__main__":
    main(*sys.argv[1:])
