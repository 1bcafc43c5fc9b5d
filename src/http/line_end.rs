//! Programs that people run in a terminal get a line's end after their answer, so that the prompt has a line
//! of its own. All others get what was answered, to the byte.

use actix_web::HttpRequest;
use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::ServiceResponse;
use actix_web::http::header::{CONTENT_TYPE, USER_AGENT};

/// How they begin their `User-Agent`.
const TERMINALS: [&str; 4] = ["curl/", "Wget/", "HTTPie/", "xh/"];

/// Adds it to JSON that comes whole, not to a stream.
pub(super) fn put(answer: ServiceResponse<BoxBody>) -> ServiceResponse<BoxBody> {
    if !asked_in_a_terminal(answer.request()) || !is_json(&answer) {
        return answer;
    }
    answer.map_body(|_, body| match body.try_into_bytes() {
        Ok(text) if !text.is_empty() && !text.ends_with(b"\n") => BoxBody::new([&text[..], b"\n"].concat()),
        Ok(text) => BoxBody::new(text),
        Err(body) => body,
    })
}

fn asked_in_a_terminal(req: &HttpRequest) -> bool {
    let agent = req.headers().get(USER_AGENT).and_then(|agent| agent.to_str().ok());
    agent.is_some_and(|agent| TERMINALS.iter().any(|name| agent.starts_with(name)))
}

fn is_json(answer: &ServiceResponse<BoxBody>) -> bool {
    let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    matches!(kind.split(';').next(), Some("application/json" | "application/problem+json"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::HttpResponse;
    use actix_web::test::TestRequest;

    fn said(agent: &'static str, kind: &'static str, text: &'static str) -> Vec<u8> {
        let req = TestRequest::default().insert_header((USER_AGENT, agent)).to_http_request();
        let answer = HttpResponse::Ok().content_type(kind).body(text);
        put(ServiceResponse::new(req, answer)).into_body().try_into_bytes().unwrap_or_default().to_vec()
    }

    #[test]
    fn json_ends_its_line_in_a_terminal_and_nowhere_else() {
        assert_eq!(said("curl/8.5.0", "application/json", "{}"), b"{}\n");
        assert_eq!(said("Wget/1.21", "application/problem+json; charset=utf-8", "{}"), b"{}\n");
        assert_eq!(said("curl/8.5.0", "application/json", "{}\n"), b"{}\n");
        assert_eq!(said("curl/8.5.0", "application/json", ""), b"");
        assert_eq!(said("curl/8.5.0", "text/html", "x"), b"x");
        for other in ["Mozilla/5.0", "python-httpx/0.28", "libcurl/8", ""] {
            assert_eq!(said(other, "application/json", "{}"), b"{}", "{other}");
        }
    }
}
