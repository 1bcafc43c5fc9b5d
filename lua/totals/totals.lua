-- totals: how totals/counting ends for scripts that sell or take back.

feed.commits[#feed.commits + 1] = count_commit

return {
  count_sale = count_sale, take_row = uncount_row, take_gift = uncount_gift, take_value = uncount_value,
  refusal_at_start = count_gate, refusal = count_refuses,
}
