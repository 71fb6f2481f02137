# a machine that slept is sampled again on every CPU, also on the one that never went, and the job gets done
# SPDX-License-Identifier: GPL-2.0-or-later
# machine: two-tier
# timeout: 400
# ibs: ibs_op,ops_per_miss=40
# needs: hotset pghotd pghotctl
# shellcheck shell=dash disable=SC1091,SC2154

. /lab/cpus.sh

# The kernel's own test of suspending: devices, CPUs and clocks go through all of it, and after five seconds come back.
# Really switched off, this machine's memory with the samples would be gone before the CPUs come.
power=/sys/power
[ -w $power/pm_test ] || give_up "the kernel can try out suspending" "there is no $power/pm_test"

# The shared folder doesn't live through it; so nothing of it is in use meanwhile.
shared=$OUT
exec > /tmp/output.txt 2>&1
OUT=/tmp/resume
driver=/sys/bus/virtio/drivers/9pnet_virtio
mkdir $OUT
umount /out || give_up "the shared folder is let go" "$(tail -n 1 /tmp/output.txt)"
device=$(basename "$(ls -d $driver/virtio*)")
echo "$device" > $driver/unbind

bring_back()
{
	echo none > $power/pm_test
	echo "$device" > $driver/bind
	mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 out /out
	cp $OUT/* /tmp/output.txt "$shared"
}

trap bring_back EXIT

sample_both_cpus
opens_0=$(asked 0 opens) opens_1=$(asked 1 opens)

echo core > $power/pm_test
slept=1
echo mem > $power/state && slept=0
check "the machine slept" $slept -eq 0
check "and its second CPU went meanwhile" -n "$(dmesg | grep 'CPU 1 is now offline')"

# Hardware forgets while it is without power what this machine's doesn't; so the first CPU's event has to be a new one.
opened_anew()
{
	[ "$(asked 0 opens)" -gt "$opens_0" ] && [ "$(asked 1 opens)" -gt "$opens_1" ]
}

if wait_for 60 opened_anew; then
	ok "each CPU's event is opened anew"
else
	not_ok "each CPU's event is opened anew" \
		"CPU 0: $(($(asked 0 opens) - opens_0)), CPU 1: $(($(asked 1 opens) - opens_1))"
fi
both_sampled
job_is_done
check "the log says that it slept" "$(grep -c 'the machine slept' "$OUT/pghotd.log")" -eq 1
log_has_only 'the machine slept|CPU 1 came online: '
stop_pghotd
check "it ends with status 0" "$PGHOTD_STATUS" -eq 0
stop_hotset
