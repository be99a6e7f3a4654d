//! The `grpc-timeout` header: read strictly, kept from tonic, and held to until the response begins.
//!
//! tonic takes a malformed header for none, which turns a typing error into "no limit"; it ends a late call with CANCELLED, which
//! says that the caller gave up; and it bounds no stream. So the header is read here, in front of tonic, and taken off. What
//! comes after the head of a response is the stream's own: it finds its [`Deadline`] in the request's extensions.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use http::{HeaderMap, HeaderName, Request, Response, header::CONTENT_TYPE};
use tokio::time::{Instant, Sleep, sleep_until};
use tonic::Status;
use tower::{Layer, Service};

use super::status;

/// The header's name.
pub const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// Stands in where a deadline lies beyond what the clock of this machine can count.
const FAR: Duration = Duration::from_secs(30 * 365 * 86_400);

/// The deadline of a call, in the extensions of its request. Absent where the caller set none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// How long the caller gives the call, as it said so. Longer than zero; up to 11,415 years.
    pub timeout: Duration,
    /// When that is over, counted from when the request's head was read. Cut to some 30 years where the clock ends sooner.
    pub at: Instant,
}

impl Deadline {
    /// The deadline of a call that begins now.
    pub fn after(timeout: Duration) -> Self {
        let now = Instant::now();
        Self {
            timeout,
            at: now.checked_add(timeout).unwrap_or_else(|| now + FAR),
        }
    }
}

/// Reads the header of a call.
///
/// # Errors
/// INVALID_ARGUMENT if it is malformed, empty or there twice; DEADLINE_EXCEEDED if it leaves no time at all.
fn read(headers: &HeaderMap) -> Result<Option<Deadline>, Status> {
    let mut values = headers.get_all(GRPC_TIMEOUT).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(status::invalid_deadline("is there twice; send it once"));
    }
    let Some(timeout) = parse(value.as_bytes()) else {
        return Err(status::invalid_deadline(
            "is malformed; it is one to eight digits and one of H, M, S, m, u and n, for example 30S",
        ));
    };
    if timeout.is_zero() {
        return Err(status::deadline_exceeded());
    }
    Ok(Some(Deadline::after(timeout)))
}

/// Reads `TimeoutValue TimeoutUnit` as the gRPC protocol defines them: one to eight ASCII digits, and one letter.
fn parse(value: &[u8]) -> Option<Duration> {
    let (unit, digits) = value.split_last()?;
    if !(1..=8).contains(&digits.len()) {
        return None;
    }
    let mut count = 0_u64;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        // Eight digits at most: no overflow here, nor in hours below.
        count = count * 10 + u64::from(digit - b'0');
    }
    match unit {
        b'H' => Some(Duration::from_secs(count * 3600)),
        b'M' => Some(Duration::from_secs(count * 60)),
        b'S' => Some(Duration::from_secs(count)),
        b'm' => Some(Duration::from_millis(count)),
        b'u' => Some(Duration::from_micros(count)),
        b'n' => Some(Duration::from_nanos(count)),
        _ => None,
    }
}

/// Whether a request is a gRPC call. Other requests keep their headers.
fn is_grpc(headers: &HeaderMap) -> bool {
    headers
        .get(CONTENT_TYPE)
        .is_some_and(|t| t.as_bytes().starts_with(b"application/grpc"))
}

/// Makes [`Deadlines`].
#[derive(Clone, Copy, Debug, Default)]
pub struct DeadlineLayer;

impl<S> Layer<S> for DeadlineLayer {
    type Service = Deadlines<S>;

    fn layer(&self, inner: S) -> Deadlines<S> {
        Deadlines { inner }
    }
}

/// Stands in front of tonic and holds every gRPC call to its deadline until its response begins.
#[derive(Clone, Debug)]
pub struct Deadlines<S> {
    inner: S,
}

impl<S, B, R> Service<Request<B>> for Deadlines<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Future: Unpin,
    R: Default,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = DeadlineFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        if !is_grpc(request.headers()) {
            return DeadlineFuture::within(None, self.inner.call(request));
        }
        match read(request.headers()) {
            Ok(None) => DeadlineFuture::within(None, self.inner.call(request)),
            Ok(Some(deadline)) => {
                request.headers_mut().remove(GRPC_TIMEOUT);
                request.extensions_mut().insert(deadline);
                DeadlineFuture::within(Some(deadline), self.inner.call(request))
            }
            Err(status) => DeadlineFuture(State::Refused(Some(Box::new(status)))),
        }
    }
}

/// A call on its way to its response's head.
#[derive(Debug)]
pub struct DeadlineFuture<F>(State<F>);

#[derive(Debug)]
enum State<F> {
    Refused(Option<Box<Status>>),
    Running {
        inner: F,
        begun: bool,
        // Boxed: most calls have none, and this future is held as long as a stream lives.
        sleep: Option<Pin<Box<Sleep>>>,
    },
}

impl<F> DeadlineFuture<F> {
    fn within(deadline: Option<Deadline>, inner: F) -> Self {
        let sleep = deadline.map(|d| Box::pin(sleep_until(d.at)));
        Self(State::Running {
            inner,
            begun: false,
            sleep,
        })
    }
}

impl<F, R, E> Future for DeadlineFuture<F>
where
    F: Future<Output = Result<Response<R>, E>> + Unpin,
    R: Default,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let status = match &mut self.0 {
            // A future is not polled again once it was ready, and taking the status makes it ready.
            State::Refused(status) => *status.take().expect("not polled after it was ready"),
            State::Running {
                inner,
                begun,
                sleep,
            } => {
                let begins = !std::mem::replace(begun, true);
                let over = |sleep: &Pin<Box<Sleep>>| sleep.deadline() <= Instant::now();
                // A call whose time is over before it begins does nothing at all. Later, an answer that is there wins over a deadline
                // that has just passed.
                if !(begins && sleep.as_ref().is_some_and(over)) {
                    if let Poll::Ready(response) = Pin::new(inner).poll(cx) {
                        return Poll::Ready(response);
                    }
                    let Some(sleep) = sleep else {
                        return Poll::Pending;
                    };
                    ready!(sleep.as_mut().poll(cx));
                }
                status::deadline_exceeded()
            }
        };
        Poll::Ready(Ok(status.into_http()))
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, future::pending};

    use http::HeaderValue;
    use tonic::Code;
    use tower::{ServiceExt as _, service_fn};

    use super::*;

    fn header(values: &[&[u8]]) -> HeaderMap {
        values
            .iter()
            .map(|v| (GRPC_TIMEOUT, HeaderValue::from_bytes(v).expect("a value")))
            .collect()
    }

    #[test]
    fn well_formed_values_mean_what_they_say() {
        for (value, timeout) in [
            ("1n", Duration::from_nanos(1)),
            ("20u", Duration::from_micros(20)),
            ("300m", Duration::from_millis(300)),
            ("4S", Duration::from_secs(4)),
            ("005M", Duration::from_secs(300)),
            ("6H", Duration::from_secs(21_600)),
            ("99999999H", Duration::from_secs(99_999_999 * 3600)),
        ] {
            let deadline = read(&header(&[value.as_bytes()])).expect(value);
            assert_eq!(deadline.map(|d| d.timeout), Some(timeout), "{value}");
        }
    }

    #[test]
    fn a_malformed_value_never_means_no_limit() {
        for value in [
            "",
            "S",
            "5",
            " 5S",
            "5S ",
            "5s",
            "5D",
            "-5S",
            "+5S",
            "1.5S",
            "5 S",
            "0x5S",
            "123456789S",
            "000000005S",
            "Infinitym",
            "٣S",
            "5S,5S",
        ] {
            let status = read(&header(&[value.as_bytes()])).expect_err(value);
            assert_eq!(status.code(), Code::InvalidArgument, "{value:?}");
            assert!(status.message().contains("grpc-timeout"), "{value:?}");
        }
        let twice = read(&header(&[b"5S", b"5S"])).expect_err("twice");
        assert_eq!(twice.code(), Code::InvalidArgument);
    }

    #[test]
    fn no_time_at_all_is_over_at_once() {
        for value in ["0S", "0n", "00000000H"] {
            let status = read(&header(&[value.as_bytes()])).expect_err(value);
            assert_eq!(status.code(), Code::DeadlineExceeded, "{value}");
        }
    }

    fn request(content_type: &'static str, timeout: &'static str) -> Request<()> {
        Request::builder()
            .header(CONTENT_TYPE, content_type)
            .header(GRPC_TIMEOUT, timeout)
            .body(())
            .expect("a request")
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_without_an_answer_ends_at_its_deadline() {
        let silent = service_fn(|_: Request<()>| {
            Box::pin(async { pending::<Result<Response<()>, Infallible>>().await })
        });
        let start = Instant::now();
        let response = DeadlineLayer
            .layer(silent)
            .oneshot(request("application/grpc+proto", "2S"))
            .await
            .expect("a response");
        assert_eq!(response.headers()["grpc-status"], "4");
        assert!(response.headers().contains_key("grpc-status-details-bin"));
        assert_eq!(start.elapsed().as_secs(), 2);
    }

    #[tokio::test]
    async fn a_call_whose_time_is_over_before_it_begins_is_not_begun() {
        let touched = service_fn(|_: Request<()>| {
            Box::pin(async { panic!("begun") as Result<Response<()>, Infallible> })
        });
        let call = DeadlineLayer
            .layer(touched)
            .call(request("application/grpc", "1n"));
        std::thread::yield_now();
        let response = call.await.expect("a response");
        assert_eq!(response.headers()["grpc-status"], "4");
    }

    #[tokio::test(start_paused = true)]
    async fn the_header_is_taken_off_and_handed_on() {
        let echo = service_fn(|request: Request<()>| {
            let mut response = Response::new(());
            *response.headers_mut() = request.headers().clone();
            *response.extensions_mut() = request.extensions().clone();
            std::future::ready(Ok::<_, Infallible>(response))
        });
        let service = DeadlineLayer.layer(echo);
        let call = service.clone().oneshot(request("application/grpc", "2S"));
        let response = call.await.expect("a response");
        assert!(!response.headers().contains_key(GRPC_TIMEOUT));
        let deadline = response.extensions().get::<Deadline>().expect("a deadline");
        assert_eq!(*deadline, Deadline::after(Duration::from_secs(2)));

        // What is not gRPC is not ours to judge.
        let call = service.oneshot(request("text/html", "soon"));
        let response = call.await.expect("a response");
        assert_eq!(response.headers()[GRPC_TIMEOUT], "soon");
    }
}
