//! Orders from a CSV file.

use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};

use super::order::Order;

/// The largest amount: sums over millions of orders still fit.
const MOST_CENTS: i64 = 1_000_000_000_000;

/// Reads all orders; a bad row is an error that names its line, and nothing is placed.
pub(super) fn read(path: &Path) -> Result<Vec<Order>> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
    let orders = parse(&text).with_context(|| format!("cannot use {shown}"))?;
    if orders.is_empty() {
        bail!("{shown} holds no order");
    }
    Ok(orders)
}

fn parse(text: &str) -> Result<Vec<Order>> {
    let mut rows = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let header = rows.headers()?.clone();
    let column = |name: &str| {
        header.iter().position(|column| column == name).ok_or_else(|| {
            anyhow!("line 1 has no column {name:?}: the header must be customer,amount_cents")
        })
    };
    let (customer, amount) = (column("customer")?, column("amount_cents")?);
    let mut orders = Vec::new();
    for (row, seq) in rows.into_records().zip(1..) {
        let row = row?;
        let order = order(seq, &row[customer], &row[amount]);
        orders.push(order.with_context(|| format!("line {} is no order", line(text, &row)))?);
    }
    Ok(orders)
}

/// The line that a row begins on; its position may be that of a blank line before it.
fn line(text: &str, row: &csv::StringRecord) -> usize {
    let start = row.position().and_then(|position| usize::try_from(position.byte()).ok());
    let (before, rest) = text.split_at(start.unwrap_or(0));
    let blank = &rest[..rest.len() - rest.trim_start_matches(['\r', '\n']).len()];
    1 + before.matches('\n').count() + blank.matches('\n').count()
}

fn order(seq: i64, customer: &str, amount: &str) -> Result<Order> {
    alkstore::validate_local_name(customer).context("the customer's name cannot be a key")?;
    let amount_cents: i64 =
        amount.parse().with_context(|| format!("amount_cents {amount:?} is no whole number"))?;
    if !(0..=MOST_CENTS).contains(&amount_cents) {
        bail!("amount_cents must lie between 0 and {MOST_CENTS}");
    }
    Ok(Order { seq, customer: customer.to_owned(), amount_cents })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_may_come_in_any_order() {
        let orders = parse("amount_cents, note ,customer\n250,x,\"Ada, L.\"\n 7 ,,Bo\n");
        let orders = orders.unwrap();
        assert_eq!(orders.len(), 2);
        assert_eq!(orders[0], Order { seq: 1, customer: "Ada, L.".to_owned(), amount_cents: 250 });
        assert_eq!((orders[1].seq, orders[1].amount_cents), (2, 7));
    }

    #[test]
    fn a_bad_row_is_named_by_its_line() {
        let refusal = |text: &str| format!("{:#}", parse(text).unwrap_err());
        assert!(refusal("customer,cents\nAda,1\n").contains("no column \"amount_cents\""));
        let refused = refusal("customer,amount_cents\nAda,1\n\nBo,1.5\n");
        assert!(refused.starts_with("line 4 is no order: amount_cents \"1.5\""), "{refused}");
        assert!(refusal("customer,amount_cents\nAda,-1\n").contains("line 2"));
        assert!(refusal("customer,amount_cents\n ,1\n").contains("line 2"));
        assert!(refusal("customer,amount_cents\nAda\n").contains("line: 2"));
    }
}
