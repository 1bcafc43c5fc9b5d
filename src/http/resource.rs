//! From a row of [`access`] to its handlers. The door has found the row of every request by then, so nobody looks for it
//! again: a router would try one pattern after the other, and needs crates for regular expressions to do so.

use actix_web::dev::{Service, ServiceFactory, ServiceRequest, ServiceResponse};
use actix_web::http::Method;
use actix_web::{Error, HttpMessage, HttpResponse, Route};
use futures_util::future::LocalBoxFuture;

use super::access::{self, Handler, RouteEntry};
use super::problem::{ApiError, invalid};

/// Makes the handlers of each worker.
pub(crate) struct Handlers;

impl ServiceFactory<ServiceRequest> for Handlers {
    type Response = ServiceResponse;
    type Error = Error;
    type Config = ();
    type Service = OfWorker;
    type InitError = ();
    type Future = LocalBoxFuture<'static, Result<OfWorker, ()>>;

    fn new_service(&self, (): ()) -> Self::Future {
        Box::pin(async move {
            let mut handlers = Vec::new();
            for entry in access::entries() {
                let mut of_row = Vec::new();
                // A row that is there for queries alone has no handlers of its own.
                for method in
                    entry.methods.iter().filter(|method| entry.named_by_query(method.name).is_none())
                {
                    if let Handler::Route(route) = method.handler {
                        of_row.push((method.name, route().new_service(()).await?));
                    }
                }
                handlers.push(of_row);
            }
            Ok(OfWorker(handlers))
        })
    }
}

type RowOfHandlers = Vec<(&'static str, <Route as ServiceFactory<ServiceRequest>>::Service)>;

/// The handlers of one worker, by the number of the row.
pub(crate) struct OfWorker(Vec<RowOfHandlers>);

impl Service<ServiceRequest> for OfWorker {
    type Response = ServiceResponse;
    type Error = Error;
    type Future = LocalBoxFuture<'static, Result<ServiceResponse, Error>>;

    actix_web::dev::always_ready!();

    /// Has the row answer that the request has with it, as its `&'static` [`RouteEntry`]. The parameters of the path, which
    /// the door has found to be decodable, are in the match info from then on.
    fn call(&self, mut req: ServiceRequest) -> Self::Future {
        let entry = req.extensions().get::<&'static RouteEntry>().copied();
        let method = if *req.method() == Method::HEAD { &Method::GET } else { req.method() }.as_str();
        let by_query = entry.and_then(|entry| entry.named_by_query(method));
        let row = by_query
            .map(|(_, row)| row)
            .or(entry)
            .and_then(|entry| self.0.get(entry.number))
            .into_iter()
            .flatten();
        let handler = row.into_iter().find(|(known, _)| *known == method).map(|(_, handler)| handler);
        let (Some(entry), Some(handler)) = (entry, handler) else {
            let nowhere = ApiError::NotFound(format!("there is nothing at {}", req.path()));
            let answer = ServiceResponse::new(req.into_parts().0, HttpResponse::from_error(nowhere));
            return Box::pin(async { Ok(answer) });
        };
        let params = entry.params(req.path());
        let mut params: Vec<_> =
            params.map(|(name, value)| (name, value.unwrap_or_default().into_owned())).collect();
        if let Some((name, _)) = by_query {
            let Some(value) = access::one_of_query(req.query_string(), name) else {
                let unnamed = match !entry.allow.contains(method) {
                    true => ApiError::MethodNotAllowed(&entry.allow),
                    false => invalid(format!("say which: ?{name}= once, with an id")),
                };
                return Box::pin(async { Ok(req.into_response(HttpResponse::from_error(unnamed))) });
            };
            params.push((name, value));
        }
        let info = req.match_info_mut();
        params.into_iter().for_each(|(name, value)| info.add_static(name, value));
        handler.call(req)
    }
}
