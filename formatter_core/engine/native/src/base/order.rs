//! Sorts values by numeric keys. All keys have the same few types, because each instance of the standard library's sort
//! adds 5 kB to the binary.

/// Pack two numbers into one that sorts by the first number, then by the second.
pub fn pair(first: u32, second: u32) -> u64 {
    u64::from(first) << 32 | u64::from(second)
}

/// The key by which values are sorted.
pub type Key = (u64, (u64, u32));

/// Return the indices of the values, sorted by key; the sort is stable.
pub fn places_by(keys: impl Iterator<Item = u64>) -> impl Iterator<Item = usize> {
    let mut order: Vec<(Key, u32)> = keys.map(|key| (key, (0, 0))).zip(0..).collect();
    order.sort();
    order.into_iter().map(|(_, place)| place as usize)
}

/// From this many values on, each key is computed once: the data for a key lies elsewhere in memory.
const KEYS_COMPUTED_ONCE_FROM: usize = 32;

/// Sort by keys. Shorter lists use insertion sort; longer ones that consist of a few sorted runs take little time.
pub fn sort_by<T>(values: &mut [T], key_of: impl Fn(&T) -> Key) {
    if values.len() < KEYS_COMPUTED_ONCE_FROM {
        for end in 1..values.len() {
            let mut place = end;
            while place > 0 && key_of(&values[place]) < key_of(&values[place - 1]) {
                values.swap(place, place - 1);
                place -= 1;
            }
        }
        return;
    }
    if values.windows(2).all(|pair| key_of(&pair[0]) <= key_of(&pair[1])) {
        return;
    }
    let mut places: Vec<(_, u32)> = values.iter().map(key_of).zip(0..).collect();
    places.sort();
    for index in 0..values.len() {
        let mut from = places[index].1;
        while (from as usize) < index {
            from = places[from as usize].1;
        }
        places[index].1 = from;
        values.swap(index, from as usize);
    }
}
