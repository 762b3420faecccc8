//! Connections: how many, for how long, and how they end. The responses are in `answers`.

use crate::answers::Receiver;
use crate::connections::{Connections, Most, Place};
use crate::refusal::{Refusal, RefusalReason};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::net::sockopt::set_tcp_user_timeout;
use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// Maximum size of a request's head in bytes, and maximum number of headers.
const HEAD: (usize, usize) = (16 << 10, 64);
/// Maximum duration of a connection.
const LASTS: Duration = Duration::from_secs(600);
/// How long the head of a request may take, on a new connection and after a response.
const HEAD_TIME: Duration = Duration::from_secs(5);
/// How long sent bytes may stay without an acknowledgement, in milliseconds: a client that does not read holds a response.
const UNREAD_MS: u32 = 20_000;
/// How long running requests may take when the program is stopped.
const ENDING: Duration = Duration::from_secs(10);
/// The pause after an error of the listener, which usually is a lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Limits of connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// For the body of a request; the head has less time.
    pub(crate) request: Duration,
    /// Of the connections that are open at a time.
    pub(crate) most: Most,
}

/// Becomes true with SIGTERM or SIGINT.
///
/// # Errors
/// The system's error.
pub(crate) fn stop_signal() -> io::Result<watch::Receiver<bool>> {
    let (mut term, mut int) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );
    let (sender, receiver) = watch::channel(false);
    tokio::spawn(async move {
        tokio::select! { _ = term.recv() => {} _ = int.recv() => {} }
        // Without a receiver everything has ended already.
        let _ = sender.send(true);
    });
    Ok(receiver)
}

/// Serves until `stop` changes, and then waits for the requests that have begun.
pub(crate) async fn serve(
    listener: TcpListener,
    receiver: Arc<Receiver>,
    limits: Limits,
    mut stop: watch::Receiver<bool>,
) {
    let connections = Connections::new(limits.most);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.changed() => break,
        };
        let Ok((stream, from)) = accepted else {
            sleep(PAUSE).await;
            continue;
        };
        let Some((place, closed)) = connections.admit(from.ip()) else {
            receiver.crowded(from.ip());
            continue;
        };
        if closed {
            receiver.crowded(from.ip());
        }
        // Without it, only the connection's whole time is limited.
        let _ = set_tcp_user_timeout(&stream, UNREAD_MS);
        let (receiver, stop) = (Arc::clone(&receiver), stop.clone());
        tokio::spawn(async move {
            connection(stream, from, &receiver, (limits, Arc::new(place)), stop).await;
        });
    }
    drop(listener);
    let _over = timeout(ENDING, connections.all_ended()).await;
}

async fn connection(
    stream: TcpStream,
    from: std::net::SocketAddr,
    receiver: &Arc<Receiver>,
    (limits, place): (Limits, Arc<Place>),
    mut stop: watch::Receiver<bool>,
) {
    let begun = Arc::new(AtomicBool::new(false));
    let service = service_fn(|request| {
        begun.store(true, Ordering::Relaxed);
        let (receiver, place) = (Arc::clone(receiver), Arc::clone(&place));
        async move {
            Ok::<_, Infallible>(
                receiver
                    .answer(request, from.ip(), limits.request, &place)
                    .await,
            )
        }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(limits.request.min(HEAD_TIME));
    http.max_buf_size(HEAD.0).max_headers(HEAD.1);
    let mut serving = pin!(http.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = serving.as_mut() => Some(ended),
        _ = stop.changed() => None,
        () = sleep(LASTS) => None,
        () = place.must_end() => return,
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            serving.as_mut().graceful_shutdown();
            timeout(ENDING, serving).await.unwrap_or(Ok(()))
        }
    };
    let Err(error) = ended else { return };
    // A connection that waits for its next request may end at any time.
    let waiting = begun.load(Ordering::Relaxed);
    if error.is_timeout() && !waiting {
        receiver.refused(
            &Refusal::new(
                RefusalReason::Slow,
                "the head of the request did not arrive in time",
            ),
            from.ip(),
        );
    } else if error.is_parse() {
        receiver.refused(
            &Refusal::new(
                RefusalReason::Malformed,
                format!("no request of HTTP: {error}"),
            ),
            from.ip(),
        );
    }
}
