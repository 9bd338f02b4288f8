/* check/certify.h - `inlay plugin-check --certificate`: where a provider agreed with another one, as a file for option
 * trust (partition/certificate/certificate.h).
 *
 * The processes that run the groups record each case that was compared with another provider: its traits before it
 * runs, so that a crash belongs to it, and whether it agreed. The parent collects the records and writes the file.
 *
 *     certify_begin(check, provider, &built, &entry, false)
 *     certify_end(check, agreed, error)
 *
 * Where cases differed, the parent looks for traits that tell them from those that agreed (find_difference()). An
 * operator whose differences no trait explains is outside as a whole. */
#ifndef CHECK_CERTIFY_H
#define CHECK_CERTIFY_H
#include "check/case.h"
#include "check/loaded.h"

/* In the child. Without --certificate they do nothing. not_finite: the inputs have NaN and infinities. */
void certify_begin(struct check *check, const loaded_provider *provider, const case_instance *built,
                   const op_case *entry, bool not_finite);
/* error: the largest difference, relative to the largest element of the result. */
void certify_end(struct check *check, bool agreed, double error);
/* The same for node `node` of a group of nodes that is offered as a whole; after the run. */
struct certify_group {
    const case_instance *built;
    const uint32_t *nodes; /* [node_count] ascending */
    uint32_t node_count;
};
void certify_group(struct check *check, const loaded_provider *provider, const struct certify_group *group,
                   uint32_t node, const op_case *entry, bool agreed);

/* In the parent: the records so far. */
typedef struct certify_records certify_records;
/* NULL: out of memory. */
certify_records *certify_open(void);
void certify_close(certify_records *records);
/* Takes a record of a child. False: the object is none, but a line of the report. */
bool certify_take(certify_records *records, const json_t *object);
/* Takes note that all processes of a group have run. */
void certify_note_group(certify_records *records, const char *group);
/* Takes note of a FAIL line: if it does not belong to a case, and its group concerns every operator, no node is inside.
 * crashed: the process of the group has ended. */
void certify_note_failure(certify_records *records, const char *group, bool crashed);
/* Writes the file args->certificate. out_text: a summary for the report. */
INLAY_NODISCARD inlay_status certify_write(certify_records *records, const check_args *args, char *out_text,
                                           size_t bytes, inlay_diag *diag);
#endif
