//! A pool of things in flight, named by keys that are never valid for a later thing.

/// Generations have 31 bits: the top bit of a key is never set, so that other tags may use it.
const GENERATION_MASK: u32 = (1 << 31) - 1;

/// Key of a thing in a [`Pool`]: place and generation. Fits a request tag.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct PoolKey(u64);

impl PoolKey {
    pub fn raw(self) -> u64 {
        self.0
    }

    pub fn from_raw(raw: u64) -> Self {
        PoolKey(raw)
    }

    fn new(place: usize, generation: u32) -> Self {
        PoolKey(u64::from(generation) << 32 | place as u64)
    }

    fn place(self) -> usize {
        (self.0 & u64::from(u32::MAX)) as usize
    }

    fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// Places that stay when nothing is in flight. More were needed in a burst, and everything that goes over a pool goes
/// over all of its places.
const PLACES_KEPT: usize = 1024;

#[derive(Debug)]
pub struct Pool<T> {
    places: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
    /// Of new places: above that of every key that was given for one that is gone.
    generation: u32,
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Pool { places: Vec::new(), free: Vec::new(), generation: 1 }
    }
}

impl<T> Pool<T> {
    pub fn insert(&mut self, thing: T) -> PoolKey {
        if let Some(place) = self.free.pop() {
            let entry = &mut self.places[place as usize];
            entry.1 = Some(thing);
            return PoolKey::new(place as usize, entry.0);
        }
        let place = self.places.len();
        assert!(place < u32::MAX as usize, "a pool of four billion things in flight");
        self.places.push((self.generation, Some(thing)));
        PoolKey::new(place, self.generation)
    }

    pub fn get(&self, key: PoolKey) -> Option<&T> {
        let (generation, thing) = self.places.get(key.place())?;
        if *generation == key.generation() { thing.as_ref() } else { None }
    }

    pub fn get_mut(&mut self, key: PoolKey) -> Option<&mut T> {
        let (generation, thing) = self.places.get_mut(key.place())?;
        if *generation == key.generation() { thing.as_mut() } else { None }
    }

    pub fn remove(&mut self, key: PoolKey) -> Option<T> {
        let (generation, thing) = self.places.get_mut(key.place())?;
        if *generation != key.generation() {
            return None;
        }
        let taken = thing.take()?;
        *generation = generation.wrapping_add(1) & GENERATION_MASK;
        self.free.push(key.place() as u32);
        if self.free.len() == self.places.len() && self.places.len() > PLACES_KEPT {
            self.generation = self.places.iter().map(|&(next, _)| next).max().unwrap_or(1);
            (self.places, self.free) = (Vec::new(), Vec::new());
        }
        Some(taken)
    }

    pub fn iter(&self) -> impl Iterator<Item = (PoolKey, &T)> {
        self.places.iter().enumerate().filter_map(|(place, (generation, thing))| {
            thing.as_ref().map(|thing| (PoolKey::new(place, *generation), thing))
        })
    }

    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.places.iter_mut().filter_map(|(_, thing)| thing.as_mut())
    }

    /// Everything that is in it, in no order.
    pub fn take_all(&mut self) -> Vec<T> {
        let keys: Vec<PoolKey> = self.iter().map(|(key, _)| key).collect();
        keys.into_iter().filter_map(|key| self.remove(key)).collect()
    }

    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_never_names_a_later_thing() {
        let mut pool = Pool::default();
        let first = pool.insert("a");
        assert_eq!(pool.remove(first), Some("a"));
        let second = pool.insert("b");
        assert_eq!(pool.get(first), None);
        assert_eq!(pool.remove(first), None);
        assert_eq!(pool.get(second), Some(&"b"));
        assert_eq!(pool.len(), 1);
    }

    #[test]
    fn a_burst_leaves_no_places_and_no_key_of_it_names_a_later_thing() {
        let mut pool = Pool::default();
        let mut burst = || {
            let keys: Vec<PoolKey> = (0..=PLACES_KEPT).map(|number| pool.insert(number)).collect();
            keys.iter().for_each(|&key| assert!(pool.remove(key).is_some()));
            (keys, pool.places.len())
        };
        let bursts = [burst(), burst()];
        assert_eq!(bursts.each_ref().map(|&(_, places)| places), [0, 0]);
        let later: Vec<PoolKey> = (0..10).map(|number| pool.insert(number)).collect();
        assert!(bursts.iter().flat_map(|(keys, _)| keys).all(|&key| pool.get(key).is_none()));
        assert!(later.iter().all(|&key| pool.get(key).is_some()));
    }
}
