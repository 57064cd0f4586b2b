// An OpenID provider in this process, where each name is a user.

import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import Provider from 'oidc-provider';

const CLIENT_SECRET = 'secret of the client';

/** The claims of the users. Others have no group. */
const USERS = {
  kim: { name: 'Kim Doe', email: 'kim@example.com', email_verified: true, groups: ['approvers'] },
  lee: { name: 'Lee Poe', groups: ['staff'] },
};

/** Starts the provider. `register` names the service that may use it. */
export async function provider() {
  let handle = null;
  const server = createServer((request, response) => handle(request, response));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const key = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ format: 'jwk' });
  const register = (base) => {
    const client = {
      client_id: 'pages',
      client_secret: CLIENT_SECRET,
      id_token_signed_response_alg: 'ES256',
      redirect_uris: [`${base}/ui/sign-in/callback`],
      post_logout_redirect_uris: [`${base}/ui/sign-in`],
    };
    const running = new Provider(issuer, {
      clients: [client],
      jwks: { keys: [{ ...key, kid: 'key', use: 'sig', alg: 'ES256' }] },
      cookies: { keys: ['key of the cookies'] },
      claims: { profile: ['name'], email: ['email', 'email_verified'], groups: ['groups'] },
      // The ID token has all claims.
      conformIdTokenClaims: false,
      findAccount: (_, sub) => ({ accountId: sub, claims: () => ({ sub, ...USERS[sub] }) }),
    });
    handle = running.callback();
  };
  register('http://127.0.0.1');
  return { issuer, secret: CLIENT_SECRET, register, stop: () => server.close() };
}
