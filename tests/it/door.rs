//! Who may come in (contract section 4): keys, origins, places, rates.

use std::net::Ipv4Addr;

use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::{HeaderName, HeaderValue};

use crate::support::api::{Api, Said};
use crate::support::watcher::Socket;

mod hosts;
mod keys;
mod origins;
mod places;
mod rates;
mod rights;
mod signed;

/// A request with these headers; a JSON body of this text if there is one.
async fn ask(api: &Api, line: &str, headers: &[(&str, &str)], body: Option<&str>) -> Said {
    let (method, path) = line.split_once(' ').unwrap();
    let mut request = api.request(method, path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    if let Some(body) = body {
        request = request.header("content-type", "application/json").body(body.to_owned());
    }
    Api::send(request).await
}

/// A WebSocket with these headers from this local address; the error is the status of a refusal.
async fn connect(
    api: &Api,
    path: &str,
    headers: &[(&'static str, &str)],
    from: [u8; 4],
) -> Result<Socket, u16> {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::from(from), 0).into()).unwrap();
    let stream = socket.connect(api.authority().parse().unwrap()).await.unwrap();
    let mut request = format!("ws://{}{path}", api.authority()).into_client_request().unwrap();
    for (name, value) in headers {
        request.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
    }
    match client_async(request, stream).await {
        Ok((socket, _)) => Ok(socket),
        Err(Error::Http(answer)) => Err(answer.status().as_u16()),
        Err(error) => panic!("{error}"),
    }
}

const LOCAL: [u8; 4] = [127, 0, 0, 1];
