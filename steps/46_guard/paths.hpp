#pragma once

// Which way a part of C is computed, 64 x 128 elements of it, and why not the fast one.

enum class Path : unsigned {
  fast,       // three products of FP16 numbers
  few_terms,  // FP32: an element is the sum of few products
  lossy,      // FP32: an element is so small that what its operands have lost may show
  special,    // FP32: a row of A or a column of B has an infinity or a NaN
  short_k,    // FP32: K is small
};
constexpr int PATHS = 5;

// Of one call, in device memory. The splitting pass clears it.
struct Ledger {
  unsigned taken[PATHS];  // parts by path
  unsigned listed;        // parts on the list for the FP32 kernel
};

// The latest call's; whoever wants to know reads it when the call has ended.
inline const Ledger* latest_ledger = nullptr;
