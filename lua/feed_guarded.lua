-- feed_guarded: makes feed_publish_now that of feed_publish_guarded, whose KEYS and ARGV are more.

guarded, FIRST_KEY, FIRST_ARG = true, 19, 16
