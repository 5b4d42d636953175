//! The caller's request to stop.

use tokio::sync::watch;

/// Waits until `stop` becomes `true`; forever if its sender was dropped.
pub(crate) async fn stopped(stop: &watch::Receiver<bool>) {
    if stop.clone().wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_wish_to_stop_may_come_before_or_after() {
        let (sender, receiver) = watch::channel(false);
        let waiting = tokio::spawn({
            let receiver = receiver.clone();
            async move { stopped(&receiver).await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        sender.send(true).unwrap();
        waiting.await.unwrap();
        stopped(&receiver).await;
    }

    #[tokio::test]
    async fn a_sender_that_is_gone_stops_nothing() {
        let (sender, receiver) = watch::channel(false);
        drop(sender);
        let waiting = tokio::spawn(async move { stopped(&receiver).await });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        waiting.abort();
    }
}
