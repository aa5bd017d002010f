//! What is put in order by numbers, and numbers in one. The keys are of few types: the sorts of the standard library take
//! 5 kB for each.

/// Two numbers as one, in whose order the first counts first.
pub fn pair(first: u32, second: u32) -> u64 {
    u64::from(first) << 32 | u64::from(second)
}

/// What values are put in order by.
pub type Key = (u64, (u64, u32));

/// The places of values in the order of their keys; values with the same key stay in order.
pub fn places_by(keys: impl Iterator<Item = u64>) -> impl Iterator<Item = usize> {
    let mut order: Vec<(Key, u32)> = keys.map(|key| (key, (0, 0))).zip(0..).collect();
    order.sort();
    order.into_iter().map(|(_, place)| place as usize)
}

/// So many values are sorted by keys that are made once: what they consist of lies elsewhere.
const MANY: usize = 32;

/// Sort by keys; where values are many, quickly if they are a few sorted runs. A few are inserted one by one.
pub fn sort_by<T>(values: &mut [T], key_of: impl Fn(&T) -> Key) {
    if values.len() < MANY {
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
