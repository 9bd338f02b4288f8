/* check/cases.h - ONNX test cases on disk: folders with model.onnx and test_data_set_<N>/{input,output}_<K>.pb. */
#ifndef CHECK_CASES_H
#define CHECK_CASES_H
#include "base/arena.h"
#include "inlay/status.h"

typedef struct test_case {
    const char *name;  /* folder of the case, relative to dir of cases_find(); the last component of dir if it is dir */
    const char *model; /* path of model.onnx */
    const char *const *sets; /* [set_count] paths of the data sets, sorted */
    uint32_t set_count;
} test_case;

typedef struct case_list {
    test_case *cases; /* [count] sorted by path, in the arena */
    uint32_t count;
} case_list;

/* Adds the cases at or below dir, at any depth, to list. A folder with a model but without data is not a case.
 * INLAY_NOT_FOUND: dir contains no case. INLAY_LIMIT_EXCEEDED: folders nest more than 32 deep. */
INLAY_NODISCARD inlay_status cases_find(const char *dir, struct arena *arena, case_list *list, inlay_diag *diag);
#endif
