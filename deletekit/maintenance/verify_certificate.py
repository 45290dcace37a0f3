"""Verify a certificate of `deletekit.erase`, without deletekit: `python verify_certificate.py x.json public.pem`.

It needs the package `cryptography`, and this file alone. With `--files`, files of this machine that the last search
read are compared with their hashes, if they are still there. Whose public key it is, you must know yourself.
"""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import load_pem_public_key


def verified(data: bytes, public_key: bytes) -> dict[str, Any]:
    """Return the signed document. Raise ValueError if one byte is another than those that were signed."""
    whole = json.loads(data)
    if data != (json.dumps(whole, indent=1, sort_keys=True) + "\n").encode() or whole.keys() != {
        "certificate",
        "signature",
    }:
        raise ValueError("not the bytes that were written")
    signed = json.dumps(whole["certificate"], sort_keys=True, separators=(",", ":")).encode()
    key: Any = load_pem_public_key(public_key)
    signature = bytes.fromhex(whole["signature"])
    if signature.hex() != whole["signature"]:
        raise ValueError("not the bytes that were written")
    try:
        key.verify(signature, signed)
    except InvalidSignature:
        raise ValueError("the signature is not that of this key") from None
    return dict(whole["certificate"])


def changed_files(document: dict[str, Any]) -> list[str]:
    """Return the searched files that are still on this machine, and have other bytes than when they were searched."""
    local = {f["path"].removeprefix("file://"): f["sha256"] for f in document["after"]["searched"]}
    there = (path for path in local if Path(path).is_file())
    return [path for path in there if hashlib.sha256(Path(path).read_bytes()).hexdigest() != local[path]]


def main(certificate: str, public_key: str, *options: str) -> None:
    """Print what the certificate says. The exit code is 1 if it is not verified, or a file has changed."""
    try:
        document = verified(Path(certificate).read_bytes(), Path(public_key).read_bytes())
    except ValueError as e:
        sys.exit(f"NOT VERIFIED: {e}")
    after = document["after"]
    print("verified; erased:", document["erased"], "; searched files:", len(after["searched"]))  # noqa: T201
    for what in ("found", "possible", "not-searched"):
        for path, why in after[what].items():
            print(f"{what}: {path}: {why}")  # noqa: T201
    if "--files" in options and (changed := changed_files(document)):
        sys.exit("CHANGED SINCE: " + ", ".join(changed))


if __name__ == "__main__":
    main(*sys.argv[1:])
