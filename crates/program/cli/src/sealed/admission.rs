//! Who may use a sealed server: those whose keys are in a file beside its own, and whoever uses a line with a token first.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anabranch::Association;
use anabranch::seal::{Allow, Invitation, PublicKey, Seal, SealHandle, SecretKey, Token};
use anabranch_gateway::Allowances;
use tokio::time::sleep;

use super::users::{Changed, Users};
use crate::failure::{Failure, complain};

/// How long the last packets to a client that is locked out may take to leave.
const LAST: Duration = Duration::from_millis(100);

/// The users of a sealed server, and their associations.
#[derive(Debug)]
pub(crate) struct Admission {
    secret: SecretKey,
    /// What the server calls itself in messages.
    name: &'static str,
    users: Arc<Mutex<Users>>,
    handle: SealHandle,
    /// Associations that are open, with the key of their client.
    open: Mutex<Vec<(Option<PublicKey>, Association)>>,
}

impl Admission {
    /// How often the file of users is to be looked at.
    pub(crate) const LOOK: Duration = Duration::from_secs(1);

    /// Makes the seal admit these users only, and those who use an invitation.
    pub(crate) fn new(
        seal: Seal,
        secret: SecretKey,
        users: Users,
        name: &'static str,
    ) -> (Seal, Self) {
        let seal = seal.allow(Allow::Keys(users.keys().collect()));
        let users = Arc::new(Mutex::new(users));
        let seal = seal.on_admitted({
            let users = users.clone();
            move |key| match lock(&users).add(key) {
                Ok(()) => tell_admitted(key, name),
                Err(error) => complain(&error),
            }
        });
        let handle = seal.handle();
        (seal, Self { secret, name, users, handle, open: Mutex::default() })
    }

    /// An invitation for one more user, to these addresses.
    pub(crate) fn invite(
        &self,
        addresses: impl IntoIterator<Item = SocketAddr>,
    ) -> Result<Invitation, Failure> {
        let token = Token::generate().map_err(Failure::failed)?;
        self.handle.invite(token.clone());
        Ok(Invitation::new(self.secret.public(), addresses).with_token(token))
    }

    /// Notes an association, so that it ends when its user is removed. Returns the user's key, unless the association has
    /// ended already.
    pub(crate) fn opened(&self, association: &Association) -> Option<PublicKey> {
        let client = association.peer_addresses().first().map(SocketAddr::ip);
        let key = client.and_then(|client| self.handle.peer_of(client));
        lock(&self.open).push((key, association.clone()));
        key
    }

    /// Forgets an association that has ended.
    pub(crate) fn closed(&self, id: u64) {
        lock(&self.open).retain(|(_, association)| association.id() != id);
    }

    /// Looks at the file of users: admits those whose keys have come into it, and locks out those whose keys have left.
    /// Returns what users may have, if that has changed.
    pub(crate) async fn look(&self) -> Option<Allowances> {
        let changed = lock(&self.users).look();
        let changed = changed.unwrap_or_else(|error| {
            complain(&error);
            Changed::default()
        });
        for key in changed.added {
            self.handle.allow(key);
            tell_admitted(key, self.name);
        }
        if !changed.removed.is_empty() {
            self.lock_out(&changed.removed).await;
        }
        changed.allowances
    }

    /// Ends the associations of users, and answers them no more.
    async fn lock_out(&self, keys: &[PublicKey]) {
        {
            let open = lock(&self.open);
            let theirs = open.iter().filter(|(of, _)| of.is_some_and(|of| keys.contains(&of)));
            theirs.for_each(|(_, association)| association.abort(b"this key was removed"));
        }
        // They learn that, if they can be reached. If they come again meanwhile, that ends without a word.
        sleep(LAST).await;
        keys.iter().for_each(|key| self.handle.revoke(*key));
        for key in keys {
            complain(&format!("{key} may not use this {} any more", self.name));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn tell_admitted(key: PublicKey, name: &str) {
    complain(&format!("{key} may use this {name} from now on"));
}
