//! From the HTTP server to a thread of sockets. The application answers a handshake as any request;
//! when its answer says that the connection is to be taken over, the socket leaves the server for good,
//! with the buffers and the task that the server had for it.

use std::cell::OnceCell;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix_codec::Framed;
use actix_http::body::{BoxBody, MessageBody};
use actix_http::h1::{Codec, Message};
use actix_http::{ConnectionType, HttpMessage, Request, Response, StatusCode};
use actix_service::{Service, ServiceFactory, fn_service};
use actix_web::dev::ServiceResponse;
use actix_web::rt::net::TcpStream;
use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use tokio_util::codec::Encoder;

use super::handover::Handover;
use super::threads::SocketThreads;

/// How long a connection that is not taken over may take to end after its answer.
const LINGER: Duration = Duration::from_secs(2);

/// How long it may take to accept that answer.
const WRITTEN_WITHIN: Duration = Duration::from_secs(10);

/// In a request's extensions: its connection can be taken over.
#[derive(Clone, Copy, Debug)]
pub struct CanTakeOver;

/// In an answer's extensions: its connection is to be taken over, with what was agreed on.
pub struct TakeOver<H>(pub H);

/// The application, kept where the upgrades of the same worker reach it.
pub struct Shared<F: ServiceFactory<Request>> {
    app: F,
    here: Rc<OnceCell<Rc<F::Service>>>,
}

impl<F: ServiceFactory<Request>> Shared<F> {
    /// Around `app`.
    pub fn new(app: F) -> Self {
        Shared { app, here: Rc::default() }
    }

    /// What answers upgrades, and hands those that are agreed on over to `sockets`.
    pub fn upgrades<T, H, B>(
        &self,
        sockets: Arc<SocketThreads<H>>,
    ) -> impl ServiceFactory<
        (Request, Framed<T, Codec>),
        Config = (),
        Response = (),
        Error = Infallible,
        InitError = (),
    > + use<F, T, H, B>
    where
        T: AsyncRead + AsyncWrite + Unpin + Into<TcpStream> + 'static,
        H: Send + 'static,
        B: MessageBody + 'static,
        F: ServiceFactory<Request, Response = ServiceResponse<B>>,
        F::Error: Into<Response<BoxBody>>,
        F::Service: 'static,
    {
        let app_of_worker = self.here.clone();
        fn_service(move |(request, framed)| {
            let ended = answer(app_of_worker.get().cloned(), request, framed, sockets.clone());
            async move {
                // Mostly a client that left meanwhile.
                if let Err(error) = ended.await {
                    tracing::debug!(%error, "a handshake came to nothing");
                }
                Ok::<(), Infallible>(())
            }
        })
    }
}

impl<F> ServiceFactory<Request> for Shared<F>
where
    F: ServiceFactory<Request>,
    F::Future: 'static,
    F::Service: 'static,
    F::InitError: 'static,
{
    type Response = F::Response;
    type Error = F::Error;
    type Config = F::Config;
    type Service = Rc<F::Service>;
    type InitError = F::InitError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Service, Self::InitError>>>>;

    fn new_service(&self, config: F::Config) -> Self::Future {
        let (made, here) = (self.app.new_service(config), self.here.clone());
        Box::pin(async move {
            let app = Rc::new(made.await?);
            // Made once per worker; a second one would serve as well.
            let _ = here.set(app.clone());
            Ok(app)
        })
    }
}

/// Has the application answer, then hands the socket over or ends the connection.
async fn answer<S, T, H, B>(
    app: Option<Rc<S>>,
    request: Request,
    framed: Framed<T, Codec>,
    sockets: Arc<SocketThreads<H>>,
) -> io::Result<()>
where
    S: Service<Request, Response = ServiceResponse<B>>,
    S::Error: Into<Response<BoxBody>>,
    T: AsyncRead + AsyncWrite + Unpin + Into<TcpStream>,
    H: Send + 'static,
    B: MessageBody + 'static,
{
    let Some(app) = app else { return Err(io::Error::other("the application is not there yet")) };
    request.extensions_mut().insert(CanTakeOver);
    let mut parts = framed.into_parts();
    let answer: Response<BoxBody> = match app.call(request).await {
        Ok(answer) => Response::from(answer.into_parts().1).map_into_boxed_body(),
        Err(error) => error.into(),
    };
    let (mut answer, body) = answer.into_parts();
    let handshake = answer.extensions_mut().remove::<TakeOver<H>>();
    if handshake.is_none() && answer.status() != StatusCode::SWITCHING_PROTOCOLS {
        // What the client sends after it may be meant for another protocol.
        answer.head_mut().set_connection_type(ConnectionType::Close);
    }
    let mut head = parts.write_buf;
    parts.codec.encode(Message::Item((answer, body.size())), &mut head)?;
    match handshake {
        Some(TakeOver(handshake)) => {
            let stream = parts.io.into().into_std()?;
            let handover =
                Handover { stream, head: head.freeze(), received: parts.read_buf.freeze(), handshake };
            // Dropped when too many are on their way: nothing was answered yet, the client tries again.
            drop(sockets.hand_over(handover));
            Ok(())
        }
        None => finish(parts.io, parts.codec, head, body).await,
    }
}

/// Writes an answer to its end and closes.
async fn finish<T>(mut io: T, mut codec: Codec, mut out: BytesMut, body: BoxBody) -> io::Result<()>
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let mut body = pin!(body);
    loop {
        let chunk = poll_fn(|cx| body.as_mut().poll_next(cx)).await;
        let chunk = chunk.transpose().map_err(|error| io::Error::other(error.to_string()))?;
        let over = chunk.is_none();
        codec.encode(Message::Chunk(chunk), &mut out)?;
        timeout(WRITTEN_WITHIN, io.write_all_buf(&mut out)).await??;
        if over {
            break;
        }
    }
    io.shutdown().await?;
    // Closed with input unread, the client might lose the answer.
    let mut rest = [0; 1024];
    let _ = timeout(LINGER, async { while matches!(io.read(&mut rest).await, Ok(1..)) {} }).await;
    Ok(())
}
