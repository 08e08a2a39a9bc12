import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;

final class Digest {
    static String sha1(byte[] bytes) throws NoSuchAlgorithmException {
        StringBuilder hex = new StringBuilder(40);
        for (byte b : MessageDigest.getInstance("SHA-1").digest(bytes)) {
            hex.append(Character.forDigit((b >> 4) & 0xF, 16)).append(Character.forDigit(b & 0xF, 16));
        }
        return hex.toString();
    }
}
