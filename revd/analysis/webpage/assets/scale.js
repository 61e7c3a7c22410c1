"use strict";
/* Scales of axes: values to pixels and back, ticks, and numbers as text. */

/** A linear or logarithmic scale from the values `low` … `high` to the pixels `from` … `to`. */
function makeScale(low, high, from, to, isLog) {
  const bend = isLog ? Math.log10 : (value) => value;
  const unbend = isLog ? (value) => 10 ** value : (value) => value;
  const [first, last] = [bend(low), bend(high)];
  const place = (value) => from + ((bend(value) - first) / (last - first)) * (to - from);
  place.value = (pixel) => unbend(first + ((pixel - from) / (to - from)) * (last - first));
  place.ticks = (count) => (isLog ? logTicks(low, high, count) : linearTicks(low, high, count));
  return place;
}

function linearTicks(low, high, count) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 2.5, 5, 10].find((factor) => factor * power >= rough);
  const ticks = [];
  for (let index = Math.ceil(low / step); index * step <= high; index++) ticks.push(index * step);
  return ticks;
}

/** Powers of ten, with 2 and 5 times each if there is room; linear ticks within less than one power. */
function logTicks(low, high, count) {
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) {
    for (const factor of [1, 2, 5]) ticks.push(factor * 10 ** power);
  }
  const inside = ticks.filter((tick) => tick >= low && tick <= high);
  const powers = inside.filter((tick) => Number.isInteger(Math.log10(tick)));
  if (inside.length < 2) return linearTicks(low, high, count);
  const thinned = powers.filter((_, index) => index % Math.ceil(powers.length / count) === 0);
  return inside.length <= count + 2 ? inside : thinned;
}

/** 12000 -> 12k, 2500000 -> 2.5M; smaller numbers with at most four digits. */
function shortNumber(value) {
  const size = Math.abs(value);
  if (size >= 1e6) return `${Number((value / 1e6).toPrecision(4))}M`;
  if (size >= 1e4) return `${Number((value / 1e3).toPrecision(4))}k`;
  if (size > 0 && size < 1e-3) return value.toExponential(0);
  return Number(value.toPrecision(4)).toLocaleString("en");
}

function longNumber(value) {
  return value.toLocaleString("en", { maximumSignificantDigits: 4 });
}

function percentage(value) {
  return `${Number((100 * value).toPrecision(3))}%`;
}
