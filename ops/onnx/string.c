/* onnx/string.c - operators on strings. */
#include "schema.h"

static const op_row rows[] = {
    { "RegexFullMatch", 20, 0, "X:T1 -> Y:T2; T1=string, T2=bool; pattern:s", NULL },
    { "StringConcat", 20, 0, "X:T, Y:T -> Z:T; T=string", NULL },
    { "StringNormalizer", 10, 0,
      "X:string -> Y:string; ; case_change_action:s='NONE', is_case_sensitive:i=0, locale:s, stopwords:ss", NULL },
    { "StringSplit", 20, 0, "X:T1 -> Y:T2, Z:T3; T1=string, T2=string, T3=int64; delimiter:s, maxsplit:i", NULL },
};

const op_table op_onnx_string = { "ai.onnx", rows, OP_COUNT(rows) };
