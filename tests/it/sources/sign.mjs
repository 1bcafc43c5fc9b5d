// Signs a payload with GitHub's own library and prints the header's value.
const [secret, body] = process.argv.slice(2);
let sign;
try {
  ({ sign } = await import(`${process.env.LIBRARIES}/@octokit/webhooks-methods/dist-node/index.js`));
} catch (missing) {
  console.error(`the library is not installed: ${missing.code ?? missing.message}`);
  process.exit(1);
}
console.log(await sign(secret, body));
