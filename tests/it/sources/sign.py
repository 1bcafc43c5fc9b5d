"""Signs a payload with a platform's own library and prints the headers' values, one a line."""

import datetime
import sys
import time

kind, secret, body = sys.argv[1:4]
try:
    if kind == "stripe":
        import stripe
    else:
        import standardwebhooks
except ImportError as missing:
    sys.exit(f"the library is not installed: {missing}")

if kind == "stripe":
    at = int(time.time())
    signature = stripe.WebhookSignature._compute_signature(f"{at}.{body}", secret)
    header = f"t={at},v1={signature}"
    # The library itself takes what it made.
    stripe.Webhook.construct_event(body, header, secret)
    print(header)
else:
    now = datetime.datetime.now(tz=datetime.timezone.utc)
    print("msg_1")
    print(int(now.timestamp()))
    print(standardwebhooks.Webhook(secret).sign("msg_1", now, body))
