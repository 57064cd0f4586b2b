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

/** Starts the provider. `register` names the service that may use it, `rotate` signs with the other published key, and `accessToken` is a JWT for an audience. */
export async function provider() {
  let handle = null;
  const server = createServer((request, response) => handle(request, response));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const key = (kid) => ({ ...generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ format: 'jwk' }), kid, use: 'sig', alg: 'ES256' });
  const keys = [key('first'), key('second')];
  const register = (base) => {
    const client = {
      client_id: 'pages',
      client_secret: CLIENT_SECRET,
      id_token_signed_response_alg: 'ES256',
      redirect_uris: [`${base}/ui/sign-in/callback/acme/sso`],
      post_logout_redirect_uris: [`${base}/ui/sign-in`],
    };
    const pipeline = {
      client_id: 'pipeline',
      client_secret: CLIENT_SECRET,
      grant_types: ['client_credentials'],
      redirect_uris: [],
      response_types: [],
      id_token_signed_response_alg: 'ES256',
    };
    const resource = (audience) => ({ scope: 'attest', audience, accessTokenFormat: 'jwt', jwt: { sign: { alg: 'ES256' } } });
    const running = new Provider(issuer, {
      clients: [client, pipeline],
      features: {
        clientCredentials: { enabled: true },
        resourceIndicators: { enabled: true, getResourceServerInfo: (_, uri) => resource(uri.slice('urn:'.length)) },
      },
      jwks: { keys },
      cookies: { keys: ['key of the cookies'] },
      claims: { profile: ['name'], email: ['email', 'email_verified'], groups: ['groups'] },
      // The ID token has all claims.
      conformIdTokenClaims: false,
      findAccount: (_, sub) => ({ accountId: sub, claims: () => ({ sub, ...USERS[sub] }) }),
    });
    handle = running.callback();
  };
  const rotate = (base) => {
    keys.reverse();
    register(base);
  };
  const accessToken = async (audience) => {
    const response = await fetch(`${issuer}/token`, {
      method: 'POST',
      headers: { Authorization: `Basic ${btoa(`pipeline:${encodeURIComponent(CLIENT_SECRET)}`)}` },
      body: new URLSearchParams({ grant_type: 'client_credentials', scope: 'attest', resource: `urn:${audience}` }),
    });
    return (await response.json()).access_token;
  };
  register('http://127.0.0.1');
  return { issuer, secret: CLIENT_SECRET, register, rotate, accessToken, stop: () => server.close() };
}
