/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <string.h>

#include "daemon.h"
#include "message.h"
#include "privops_client.h"

void daemon_use_helper(struct daemon *daemon)
{
	struct privops_client *client = daemon->options.helper;

	if (!client)
		return;
	daemon->privops.ops = &privops_client_ops;
	daemon->privops.ctx = client;
	daemon->privops.saved_path = daemon->options.helper_saved_path;
	/* All that copies it, asks. */
	daemon->root.asker = daemon->privops.root.asker = &client->asker;
}

void daemon_look_at_helper(struct daemon *daemon)
{
	int before = daemon->helper_error;

	if (!daemon->options.helper)
		return;
	daemon->helper_error = privops_client_look(daemon->options.helper);
	if (daemon->helper_error && !before)
		message(MESSAGE_HELPER_LOST, NULL, 0,
			"the helper process doesn't answer: %s; what is open goes on, but no CPU that comes is sampled "
			"and no setting put back%s",
			strerror(-daemon->helper_error),
			daemon->options.user ? " until another one is started; if none comes, restart pghotd"
					     : " until it answers again");
	else if (!daemon->helper_error && before)
		message(MESSAGE_HELPER_BACK, NULL, 0, "the helper process answers again");
}
