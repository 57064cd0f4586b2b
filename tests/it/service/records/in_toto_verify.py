"""Verifies a statement with other implementations: in_toto_verify.py ENVELOPE PUBLIC_KEY. Prints the statement."""

import hashlib
import json
import sys

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key
from google.protobuf.json_format import ParseDict
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey

with open(sys.argv[1]) as file:
    envelope = Envelope.from_dict(json.load(file))
with open(sys.argv[2], "rb") as file:
    public = load_pem_public_key(file.read())
der = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
envelope.verify([SSlibKey.from_crypto(public, hashlib.sha256(der).hexdigest())], 1)
assert envelope.payload_type == "application/vnd.in-toto+json", envelope.payload_type
statement = json.loads(envelope.payload)
Statement.copy_from_pb(ParseDict(statement, statement_pb2.Statement())).validate()
print(json.dumps(statement))
