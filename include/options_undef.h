/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Undefines what options.def was included with; included right behind it, as often as needed. */
#undef OPTION_INT
#undef OPTION_FLOAT
#undef OPTION_BOOL
#undef OPTION_ENUM
#undef OPTION_TEXT
#undef OPTION_LIST
#undef OPTION_RULES
#undef OPTION_ALIAS
