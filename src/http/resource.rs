//! From a row of [`access`] to its handlers. The door has found the row of every request by then, so nobody looks for it
//! again: a router would try one pattern after the other, and needs crates for regular expressions to do so.

use actix_web::dev::{Service, ServiceFactory, ServiceRequest, ServiceResponse};
use actix_web::http::Method;
use actix_web::{Error, FromRequest, Handler, HttpMessage, HttpResponse, Responder, Route, web};
use futures_util::future::LocalBoxFuture;

use super::access::{self, Entry};
use super::problem::{ApiError, invalid};

/// A path of [`access`] with what answers there.
pub(crate) struct Resource {
    entry: Option<&'static Entry>,
    routes: Vec<Answers>,
}

/// A path that is spelled as in [`access`]; another one is never reached.
pub(crate) fn resource(path: &str) -> Resource {
    Resource { entry: access::entry(path), routes: Vec::new() }
}

impl Resource {
    /// Another method of the path.
    pub(crate) fn route(mut self, answers: Answers) -> Resource {
        self.routes.push(answers);
        self
    }
}

/// A method of a path.
pub(crate) struct On(Method);

/// What answers a method of a path.
pub(crate) struct Answers {
    method: Method,
    route: Route,
}

impl On {
    /// Has this handler answer.
    pub(crate) fn to<F, Args>(self, handler: F) -> Answers
    where
        F: Handler<Args>,
        Args: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        Answers { method: self.0, route: web::route().to(handler) }
    }
}

/// GET, and HEAD with it: actix sends the head of the answer and leaves the body out.
pub(crate) fn read() -> On {
    On(Method::GET)
}

/// POST.
pub(crate) fn post() -> On {
    On(Method::POST)
}

/// PUT.
pub(crate) fn put() -> On {
    On(Method::PUT)
}

/// PATCH.
pub(crate) fn patch() -> On {
    On(Method::PATCH)
}

/// DELETE.
pub(crate) fn delete() -> On {
    On(Method::DELETE)
}

/// What answers, by the number of the row.
pub(crate) struct Routes(Vec<Vec<Answers>>);

impl Routes {
    /// No handler yet.
    pub(crate) fn new() -> Routes {
        Routes(access::entries().iter().map(|_| Vec::new()).collect())
    }

    /// Registers what answers at a path.
    pub(crate) fn service(&mut self, resource: Resource) {
        if let Some(row) = resource.entry.and_then(|entry| self.0.get_mut(entry.number)) {
            row.extend(resource.routes);
        }
    }

    /// The methods that are answered at a path.
    #[cfg(test)]
    pub(super) fn methods(&self, entry: &Entry) -> Vec<&str> {
        self.0[entry.number].iter().map(|answers| answers.method.as_str()).collect()
    }
}

impl ServiceFactory<ServiceRequest> for Routes {
    type Response = ServiceResponse;
    type Error = Error;
    type Config = ();
    type Service = Handlers;
    type InitError = ();
    type Future = LocalBoxFuture<'static, Result<Handlers, ()>>;

    fn new_service(&self, (): ()) -> Self::Future {
        let made = |answers: &Answers| (answers.method.clone(), answers.route.new_service(()));
        let rows: Vec<Vec<_>> = self.0.iter().map(|row| row.iter().map(made).collect()).collect();
        Box::pin(async move {
            let mut handlers = Vec::with_capacity(rows.len());
            for row in rows {
                let mut of_row = Vec::with_capacity(row.len());
                for (method, handler) in row {
                    of_row.push((method, handler.await?));
                }
                handlers.push(of_row);
            }
            Ok(Handlers(handlers))
        })
    }
}

type RowOfHandlers = Vec<(Method, <Route as ServiceFactory<ServiceRequest>>::Service)>;

/// The handlers of one worker, by the number of the row.
pub(crate) struct Handlers(Vec<RowOfHandlers>);

impl Service<ServiceRequest> for Handlers {
    type Response = ServiceResponse;
    type Error = Error;
    type Future = LocalBoxFuture<'static, Result<ServiceResponse, Error>>;

    actix_web::dev::always_ready!();

    /// Has the row answer that the request has with it, as its `&'static` [`Entry`]. The parameters of the path, which
    /// the door has found to be decodable, are in the match info from then on.
    fn call(&self, mut req: ServiceRequest) -> Self::Future {
        let entry = req.extensions().get::<&'static Entry>().copied();
        let method = if *req.method() == Method::HEAD { &Method::GET } else { req.method() };
        let by_query = entry.and_then(|entry| entry.named_by_query(method.as_str()));
        let row = by_query
            .map(|(_, row)| row)
            .or(entry)
            .and_then(|entry| self.0.get(entry.number))
            .into_iter()
            .flatten();
        let handler = row.into_iter().find(|(known, _)| known == method).map(|(_, handler)| handler);
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
                let unnamed = match !entry.allow.contains(method.as_str()) {
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
