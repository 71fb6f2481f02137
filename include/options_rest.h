/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Leaves out the kinds of options.def that its includer has no use for, and so didn't define. Included by that alone.
 */
#ifndef OPTION_INT
#define OPTION_INT(...)
#endif
#ifndef OPTION_FLOAT
#define OPTION_FLOAT(...)
#endif
#ifndef OPTION_BOOL
#define OPTION_BOOL(...)
#endif
#ifndef OPTION_ENUM
#define OPTION_ENUM(...)
#endif
#ifndef OPTION_TEXT
#define OPTION_TEXT(...)
#endif
#ifndef OPTION_LIST
#define OPTION_LIST(...)
#endif
#ifndef OPTION_RULES
#define OPTION_RULES(...)
#endif
#ifndef OPTION_ALIAS
#define OPTION_ALIAS(...)
#endif
