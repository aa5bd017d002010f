//! Reads lists of members from a serialised grammar.

use std::sync::Arc;

use crate::base::limits::{Fault, Limit, Meter, Outcome};
use crate::base::tuning::MAX_CONDITIONS;
use crate::grammar::members::{Member, Members, Step, Way};
use crate::regular::distinct::Seen;
use crate::regular::program::Reader;
use crate::regular::term::UNBOUNDED;

/// Read the operands of the operation for a list of members. All lists of a grammar share the same `none_seen`.
pub fn read_members(reader: &mut Reader, id: u32, none_seen: &Arc<Seen>, meter: &mut Meter) -> Outcome<Members> {
    let ordered = reader.number()? != 0;
    let minimum = reader.number()?.max(1);
    let maximum = reader.number()?.checked_sub(1).unwrap_or(UNBOUNDED);
    let conditions = reader.number()?;
    if conditions > MAX_CONDITIONS {
        return Err(Fault::Limit(Limit::Nodes));
    }
    let once = read_bits(reader, conditions, meter)?;
    let mut members: Vec<Member> = Vec::new();
    let mut ways: Vec<Way> = Vec::new();
    let mut meeting: Vec<Vec<Step>> = vec![Vec::new(); conditions as usize];
    for member in 0..reader.number()? {
        meter.work(1)?;
        let flags = reader.number()?;
        let (mut absent, mut count) = (Vec::new(), 1);
        if flags & 4 != 0 {
            absent = read_bits(reader, conditions, meter)?;
            count = reader.number()?;
        }
        let first_way = ways.len() as u32;
        for _ in 0..count {
            meter.work(1)?;
            let meets = match flags & 4 {
                0 => Vec::new(),
                _ => read_bits(reader, conditions, meter)?,
            };
            let way = ways.len() as u32;
            meets.iter().for_each(|bit| meeting[*bit as usize].push(Step::Way(way)));
            ways.push(Way { member, meets });
        }
        absent
            .iter()
            .for_each(|bit| meeting[*bit as usize].push(Step::Leave(member)));
        members.push(Member {
            required: flags & 1 != 0,
            repeated: flags & 2 != 0,
            distinct: flags & 8 != 0,
            absent,
            first_way,
            last_way: ways.len() as u32,
        });
    }
    Ok(Members {
        id,
        ordered,
        minimum,
        maximum,
        conditions,
        once,
        live: vec![false; ways.len()],
        lacking: members.iter().filter(|member| member.required).count(),
        may_come: false,
        values: UNBOUNDED,
        starts: Vec::new(),
        separator: 0,
        none_seen: none_seen.clone(),
        members,
        ways,
        meeting,
    })
}

/// Read the indices of the set bits in a `most`-bit set.
fn read_bits(reader: &mut Reader, most: u32, meter: &mut Meter) -> Outcome<Vec<u32>> {
    let mut bits = Vec::new();
    for _ in 0..reader.number()? {
        meter.work(1)?;
        bits.push(
            Some(reader.number()?)
                .filter(|bit| *bit < most)
                .ok_or(Fault::Malformed)?,
        );
    }
    Ok(bits)
}
