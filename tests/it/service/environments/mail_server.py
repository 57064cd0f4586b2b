"""A mail server on loopback: MAIL_SERVER CERTIFICATE KEY.

Prints its port, and then each message that it took as a line of JSON. It wants STARTTLS, and then the user
"supercargo" with the password of the variable MAIL_PASSWORD. It ends with its standard input. It never takes mail for the
recipient "refused", takes mail for "later" from the second attempt on, and no message for "rejected".
"""

import asyncio
import json
import os
import ssl
import sys

from aiosmtpd.smtp import SMTP, AuthResult


class Printer:
    deferred = set()

    async def handle_RCPT(self, server, session, envelope, address, options):
        if address.startswith("refused"):
            return "550 5.1.1 no such user"
        if address.startswith("later") and address not in self.deferred:
            self.deferred.add(address)
            return "450 4.2.0 try again later"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        if any(recipient.startswith("rejected") for recipient in envelope.rcpt_tos):
            return "554 not this message"
        message = {"from": envelope.mail_from, "to": envelope.rcpt_tos, "text": envelope.content.decode()}
        print(json.dumps(message), flush=True)
        return "250 OK"


def authenticate(server, session, envelope, mechanism, data):
    is_right = (data.login, data.password) == (b"supercargo", os.environ["MAIL_PASSWORD"].encode())
    return AuthResult(success=is_right, handled=is_right)


async def main():
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*sys.argv[1:])
    settings = dict(
        tls_context=context, require_starttls=True, authenticator=authenticate, auth_required=True, hostname="localhost"
    )
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: SMTP(Printer(), **settings), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


asyncio.run(main())
