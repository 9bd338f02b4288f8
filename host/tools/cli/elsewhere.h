/* cli/elsewhere.h - names of verbs and options in other tools. */
#ifndef CLI_ELSEWHERE_H
#define CLI_ELSEWHERE_H

/* What inlay calls a verb ("convert") or an option ("--batch") of other tools, from elsewhere.def; NULL: unknown. */
const char *elsewhere_answer(const char *word);
#endif
