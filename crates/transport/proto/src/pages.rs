//! A table with an entry for every stream, which needs no memory until a stream is used.

/// While there are fewer pages than this, no room is reserved for more.
const FEW: usize = 4;

/// Values by stream number, in pages of `PAGE` entries. An entry has the default value until it is
/// touched.
#[derive(Debug)]
pub(crate) struct Pages<T, const PAGE: usize = 32> {
    /// Sorted by page number.
    pages: Vec<(u16, Box<[T; PAGE]>)>,
}

impl<T, const PAGE: usize> Default for Pages<T, PAGE> {
    fn default() -> Self {
        Self { pages: Vec::new() }
    }
}

impl<T: Default + Copy, const PAGE: usize> Pages<T, PAGE> {
    /// The value for a stream.
    #[inline]
    pub(crate) fn get(&self, stream: u16) -> T {
        let (number, index) = (stream / PAGE as u16, usize::from(stream) % PAGE);
        let at = match self.pages.get(usize::from(number)) {
            Some((found, _)) if *found == number => Ok(usize::from(number)),
            _ => self.pages.binary_search_by_key(&number, |(number, _)| *number),
        };
        at.map_or_else(|_| T::default(), |at| self.pages[at].1[index])
    }

    /// Changes all entries that were touched, and others on the same pages.
    pub(crate) fn for_each(&mut self, change: impl FnMut(&mut T)) {
        self.pages.iter_mut().flat_map(|(_, page)| page.iter_mut()).for_each(change);
    }

    /// Number of pages in memory.
    #[cfg(test)]
    pub(crate) fn pages(&self) -> usize {
        self.pages.len()
    }

    /// The entry of a stream.
    #[inline]
    pub(crate) fn entry(&mut self, stream: u16) -> &mut T {
        let (number, index) = (stream / PAGE as u16, usize::from(stream) % PAGE);
        // Streams are mostly used from 0 upwards, so the index of a page is usually its number.
        let at = match self.pages.get(usize::from(number)) {
            Some((found, _)) if *found == number => usize::from(number),
            _ => match self.pages.binary_search_by_key(&number, |(number, _)| *number) {
                Ok(at) => at,
                Err(at) => {
                    self.add(at, number);
                    at
                }
            },
        };
        &mut self.pages[at].1[index]
    }

    /// Adds a page.
    #[cold]
    fn add(&mut self, at: usize, number: u16) {
        // Most associations use few streams.
        if self.pages.len() < FEW {
            self.pages.reserve_exact(1);
        }
        self.pages.insert(at, (number, Box::new([T::default(); PAGE])));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_keep_apart() {
        let mut pages = Pages::<u16>::default();
        for stream in [65_535u16, 0, 31, 32, 1000, 33] {
            assert_eq!(*pages.entry(stream), 0);
            *pages.entry(stream) = stream ^ 1;
        }
        for stream in [65_535u16, 0, 31, 32, 1000, 33] {
            assert_eq!(pages.get(stream), stream ^ 1);
            assert_eq!(*pages.entry(stream), stream ^ 1);
        }
        assert_eq!((pages.get(1), pages.get(2000)), (0, 0));
        assert_eq!(pages.pages.len(), 4);
    }
}
